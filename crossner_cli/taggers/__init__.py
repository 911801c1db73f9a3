"""A tagger on disk: save, load, find, carry over, tag, calibrate, describe and export."""
