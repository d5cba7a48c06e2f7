"""Messages on their way from one queue to another: dead letters, redrives and other moves."""
