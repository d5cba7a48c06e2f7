"""Burst levelling: the queue grows in the rush, and the workers keep their pace."""
