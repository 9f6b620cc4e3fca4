-- Starts a new generation after a failed publication: everything cached in the old one may be out of date.
-- This does not count as a heartbeat of the node: if the reply is lost, the node is still silent.
token = ARGV[1]
redis.call('HSET', members, 'token', token)
return generation()
