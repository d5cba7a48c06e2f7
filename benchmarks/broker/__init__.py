"""The broker, measured the way its users meet it: as processes, through their clients."""
