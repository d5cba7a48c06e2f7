"""Small programs that show Penstock at work; see README.md."""
