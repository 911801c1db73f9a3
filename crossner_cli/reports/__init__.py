"""Tables, curves and pages made from the results of runs."""
