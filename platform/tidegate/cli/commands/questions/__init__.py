"""Commands that ask: what stands, why it waits, what is late or wrong, and what a delay would cost."""
