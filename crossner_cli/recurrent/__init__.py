"""All that the methods need that read words through LSTMs: the papers of 2019 and 2020, whole in one folder."""
