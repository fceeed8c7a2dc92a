"""The command line: `tidegate init | check | explain | run | sql | status | late | audit | doctor | ui`."""
