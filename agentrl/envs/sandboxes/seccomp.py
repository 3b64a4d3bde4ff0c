def program(): return None
def descriptor(): return None
