"""Files of labelled sentences, one module a family of formats."""
