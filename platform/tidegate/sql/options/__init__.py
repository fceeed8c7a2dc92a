"""WITH (…), FORMAT and SET: which options there are, of what type, with which defaults."""
