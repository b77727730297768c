SERVED = {}
