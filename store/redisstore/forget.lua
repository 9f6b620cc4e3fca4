-- Deletes a member list without nodes: Redis deletes a hash that has no fields.
redis.call('HDEL', members, 'token', 'seq')
return generation()
