"""Everything for the methods that read words through LSTMs: the papers of 2019 and 2020 in one folder."""
