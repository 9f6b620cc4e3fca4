-- Ends a roll that nobody is on: a hash without fields is no key.
redis.call('HDEL', roll, 'token', 'seq')
return life()
