"""Raw text of a domain: files and dumps, names found in them, and the sentences of each corpus level."""
