"""Files of labelled sentences, one module per family of formats."""
