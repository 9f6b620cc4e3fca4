-- The beginning of every script of Signals. KEYS: the member list, one hash, so that it is lost as a whole or not at all.
-- ARGV[1]: fresh random text.
--
-- A new generation starts with every event that may lose the list of nodes with a lease: a flush or an eviction (token), a
-- restart (run_id), a fail-over (master_replid).
local members = KEYS[1]
local info = redis.call('INFO', 'server', 'replication')
local run, replica = string.match(info, 'run_id:(%x+)'), string.match(info, 'master_replid:(%x+)')
local token = redis.call('HGET', members, 'token')
if not token then
  token = ARGV[1]
  redis.call('HSET', members, 'token', token, 'seq', '0')
  redis.call('PEXPIRE', members, 3600000)
end
local function generation()
  return token .. '.' .. string.sub(run or '', 1, 12) .. '.' .. string.sub(replica or '', 1, 12)
end
