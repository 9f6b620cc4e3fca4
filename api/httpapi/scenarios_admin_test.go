package httpapi_test

// adminScenarios returns the scenarios of every route of the admin listener, by
// operation.
func adminScenarios() map[string][]scenario {
	const why = `{"reason":"a test"}`
	return map[string][]scenario{
		"isAlive": {{as: "anonymous", method: "GET", path: "/healthz", status: 200, has: []string{`"store":"ready"`}}},
		"isReady": {
			{as: "anonymous", method: "GET", path: "/readyz", status: 200, has: []string{`"ready":true`, `"version":"test"`}},
			{as: "anonymous", method: "GET", path: "/readyz?role=api", status: 200},
			{as: "anonymous", method: "GET", path: "/readyz?role=walk", status: 503, has: []string{"does not walk", `"ready":false`}},
			{as: "anonymous", method: "GET", path: "/readyz?role=cook", status: 400},
		},
		"getMetrics": {{as: "anonymous", method: "GET", path: "/metrics", status: 200, has: []string{
			"mayfly_births_total{product=\"story\"} 6", "mayfly_served_after_deadline_total 0", "mayfly_clock_confirmed 1", "mayfly_dead_letters 0", `mayfly_verdicts_total{product="story",verdict="serve"}`, "mayfly_archive_age_seconds",
		}, hasNot: []string{"{all}", "{ana}"}}},
		"explain": {
			{as: "admin", method: "GET", path: "/v1/explain/{all}?viewer=~ben", status: 200, has: []string{`"verdict":"serve"`, `"sentences":["`}},
			{as: "moderator", method: "GET", path: "/v1/explain/{ended}?viewer={ana}", status: 200, has: []string{`"verdict":"archived"`}},
			{as: "admin", method: "GET", path: "/v1/explain/{never}", status: 200},
			{as: "admin", method: "GET", path: "/v1/explain/{past}?at=2027-01-15T00:00:00Z&viewer=moderator", status: 200},
			{as: "admin", method: "GET", path: "/v1/explain/nonsense", status: 400},
			{as: "admin", method: "GET", path: "/v1/explain/{all}?at=noon", status: 400},
			{as: "ana", method: "GET", path: "/v1/explain/{all}", status: 403},
			{as: "anonymous", method: "GET", path: "/v1/explain/{all}", status: 401},
		},
		"listWalks": {
			{as: "admin", method: "GET", path: "/v1/walks", status: 200, has: []string{`"walks":[`}},
			{as: "moderator", method: "GET", path: "/v1/walks", status: 403},
		},
		"hold": {
			{as: "moderator", method: "PUT", path: "/v1/holds/{all}", body: why, status: 204},
			{as: "admin", method: "PUT", path: "/v1/holds/{all}", body: why, status: 204},
			{as: "admin", method: "PUT", path: "/v1/holds/{all}", body: `{"reason":""}`, status: 400},
			{as: "admin", method: "PUT", path: "/v1/holds/{all}", status: 415},
			{as: "admin", method: "PUT", path: "/v1/holds/{never}", body: why, status: 404},
			{as: "admin", method: "PUT", path: "/v1/holds/{deleted}", body: why, status: 410},
			{as: "ana", method: "PUT", path: "/v1/holds/{all}", body: why, status: 403},
			{as: "anonymous", method: "PUT", path: "/v1/holds/{all}", body: why, status: 401},
		},
		"release": {
			{as: "moderator", method: "DELETE", path: "/v1/holds/{held}", body: why, status: 204},
			{as: "admin", method: "DELETE", path: "/v1/holds/nonsense", body: why, status: 400},
			{as: "service", method: "DELETE", path: "/v1/holds/{held}", body: why, status: 403},
		},
		"restore": {
			{as: "moderator", method: "POST", path: "/v1/restores", body: `{"id":"{ended}","reason":"by mistake"}`, status: 200, has: []string{"serves_until", "{ended}"}},
			{as: "moderator", method: "POST", path: "/v1/restores", body: `{"id":"{all}","reason":"it serves"}`, status: 409},
			{as: "admin", method: "POST", path: "/v1/restores", body: `{"id":"{ended}"}`, status: 400},
			{as: "admin", method: "POST", path: "/v1/restores", body: `{"reason":"x"}`, status: 400},
			{as: "admin", method: "POST", path: "/v1/restores", body: `{"run":"zz","reason":"x"}`, status: 400},
			{as: "admin", method: "POST", path: "/v1/restores", body: `{"run":"12","dry_run":true,"reason":"x"}`, status: 404},
			{as: "admin", method: "POST", path: "/v1/restores", body: `{"id":"{ended}","run":"12","reason":"x"}`, status: 400},
			{as: "admin", method: "POST", path: "/v1/restores", body: `{"run":"12","max":-1,"reason":"x"}`, status: 400},
			{as: "ben", method: "POST", path: "/v1/restores", body: `{"id":"{ended}","reason":"by mistake"}`, status: 403},
		},
		"listDeadLetters": {
			{as: "admin", method: "GET", path: "/v1/dead-letters", status: 200, has: []string{`"letters":[]`}},
			{as: "admin", method: "GET", path: "/v1/dead-letters?cursor=x", status: 400},
			{as: "admin", method: "GET", path: "/v1/dead-letters?item={all}&step=archive", status: 200, has: []string{`"letters":[]`}},
			{as: "admin", method: "GET", path: "/v1/dead-letters?step=dance", status: 400},
			{as: "admin", method: "GET", path: "/v1/dead-letters?item=nonsense", status: 400},
			{as: "moderator", method: "GET", path: "/v1/dead-letters", status: 403},
		},
		"retryDeadLetter": {
			{as: "admin", method: "POST", path: "/v1/dead-letters/{all}/archive/retry", body: why, status: 404},
			{as: "admin", method: "POST", path: "/v1/dead-letters/{all}/dance/retry", body: why, status: 400},
		},
		"dropDeadLetter": {
			{as: "admin", method: "DELETE", path: "/v1/dead-letters/{all}/archive", body: why, status: 404},
			{as: "anonymous", method: "DELETE", path: "/v1/dead-letters/{all}/archive", body: why, status: 401},
		},
		"listRuns": {
			{as: "moderator", method: "GET", path: "/v1/runs", status: 200, has: []string{`"runs":[]`}},
			{as: "admin", method: "GET", path: "/v1/runs?from=2027-01-15T00:00:00Z&limit=1", status: 200},
			{as: "admin", method: "GET", path: "/v1/runs?from=noon", status: 400},
			{as: "admin", method: "GET", path: "/v1/runs?cursor=1.2.3", status: 400},
			{as: "service", method: "GET", path: "/v1/runs", status: 403},
		},
		"findOrphans": {
			{as: "admin", method: "GET", path: "/v1/orphans", status: 200, has: []string{`"orphans":0`, `"erased":0`, `"whole":true`}},
			{as: "moderator", method: "GET", path: "/v1/orphans", status: 403},
			{as: "anonymous", method: "GET", path: "/v1/orphans", status: 401},
		},
		"eraseOrphans": {
			{as: "admin", method: "DELETE", path: "/v1/orphans", body: why, status: 200, has: []string{`"erased":0`}},
			{as: "admin", method: "DELETE", path: "/v1/orphans", body: `{"reason":""}`, status: 400},
			{as: "admin", method: "DELETE", path: "/v1/orphans", status: 415},
			{as: "moderator", method: "DELETE", path: "/v1/orphans", body: why, status: 403},
		},
		"getScrub": {
			{as: "admin", method: "GET", path: "/v1/scrub", status: 200, has: []string{`"mismatch":0`, `"bad":[]`}},
			{as: "ana", method: "GET", path: "/v1/scrub", status: 403},
		},
		"listAudit": {
			{as: "admin", method: "GET", path: "/v1/audit", status: 200, has: []string{`"verb":"hold"`, `"outcome":"done"`, "a court asks", "moderator of mayfly", "{held}"}},
			{as: "admin", method: "GET", path: "/v1/audit?limit=1", status: 200, has: []string{`"next":"`}},
			{as: "admin", method: "GET", path: "/v1/audit?cursor=1.x.node", status: 400},
			{as: "admin", method: "GET", path: "/v1/audit?cursor=1.2.node", status: 200, has: []string{`"records":[]`}},
			{as: "moderator", method: "GET", path: "/v1/audit", status: 403},
		},
		"verifyAudit": {
			{as: "admin", method: "POST", path: "/v1/audit/verify", body: `{}`, status: 200, has: []string{`"sound":true`, `"heads":["`}},
			{as: "admin", method: "POST", path: "/v1/audit/verify", body: `{"heads":["node 1 0101010101010101010101010101010101010101010101010101010101010101"]}`, status: 200, has: []string{`"sound":false`, "missing"}},
			{as: "admin", method: "POST", path: "/v1/audit/verify", body: `{"heads":["nonsense"]}`, status: 400},
			{as: "moderator", method: "POST", path: "/v1/audit/verify", body: `{}`, status: 403},
		},
		"eraseAccount": {
			{as: "admin", method: "DELETE", path: "/v1/users/~ana", body: why, status: 200, has: []string{`"held":1`, `"items":`}},
			{as: "moderator", method: "DELETE", path: "/v1/users/~ben", body: why, status: 403},
			{as: "admin", method: "DELETE", path: "/v1/users/x", body: why, status: 400},
		},
		"listProfiles": {
			{as: "admin", method: "GET", path: "/debug/pprof/", status: 200},
			{as: "anonymous", method: "GET", path: "/debug/pprof/", status: 401},
		},
		"getProfile":    {{as: "admin", method: "GET", path: "/debug/pprof/goroutine", status: 200}, {as: "ana", method: "GET", path: "/debug/pprof/goroutine", status: 403}},
		"getCPUProfile": {{as: "moderator", method: "GET", path: "/debug/pprof/profile?seconds=1", status: 403}},
		"getTrace":      {{as: "moderator", method: "GET", path: "/debug/pprof/trace?seconds=1", status: 403}},
		"getDocument":   {{as: "anonymous", method: "GET", path: "/openapi.json", status: 200}},
	}
}
