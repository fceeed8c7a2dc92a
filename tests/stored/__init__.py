"""Tables that earlier releases wrote, and the answers they gave: every later one reads them and goes on (E8)."""
