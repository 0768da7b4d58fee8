"""stub"""
def begins(row): return ()
