"""Labels that a teacher gives to raw text: taggers, or a language model behind an interface like OpenAI's."""
