"""What tests are made of: encoders, taggers, runs and files."""
