"""What the model gets to see: one question, does this still fit, and if not, what instead?"""
