vcl 4.1;

# Varnish in front of Mayfly. Include this file behind the definition of a backend:
# default.vcl beside it is an example. Needs varnish-modules (xkey).
#
# - What names no Surrogate-Key is not cached: a purge would miss it.
# - Nothing is kept or delivered past its end: no grace, no keep, and an answer that
#   carries its end (Mayfly-Until) is not delivered at or after it, also when it came
#   late from a slow backend.
# - PURGE with the secret of the environment (MAYFLY_PURGE_SECRET) drops the answers
#   of the keys in xkey-purge, and answers how many there were in Mayfly-Purged. One
#   that was purged a moment ago may be counted again; it is not delivered again.

import std;
import xkey;

sub vcl_recv {
    if (req.method == "PURGE") {
        if (!std.getenv("MAYFLY_PURGE_SECRET") || req.http.Mayfly-Purge-Secret != std.getenv("MAYFLY_PURGE_SECRET")) {
            return (synth(403));
        }
        if (!req.http.xkey-purge) {
            return (synth(400));
        }
        set req.http.Mayfly-Purged = xkey.purge(req.http.xkey-purge);
        return (synth(200));
    }
    # The answer had ended when it was to be delivered: what is now, the backend knows.
    if (req.restarts > 0) {
        return (pass);
    }
    # The built-in rules follow: only GET and HEAD without Authorization and Cookie are
    # looked up. A range of what is not cached is cut from the whole, which is fetched.
}

sub vcl_backend_response {
    set beresp.grace = 0s;
    set beresp.keep = 0s;
    if (bereq.uncacheable) {
        return (deliver);
    }
    if (beresp.http.Mayfly-Until && now + beresp.ttl > std.time(beresp.http.Mayfly-Until, now)) {
        set beresp.ttl = std.time(beresp.http.Mayfly-Until, now) - now;
    }
    if (beresp.status != 200 || beresp.ttl <= 0s || !beresp.http.Surrogate-Key || beresp.http.Set-Cookie || beresp.http.Cache-Control ~ "(?i)no-store|private") {
        # Requests for the same URL need not wait for each other.
        set beresp.ttl = 10s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    set beresp.http.xkey = beresp.http.Surrogate-Key;
    return (deliver);
}

sub vcl_deliver {
    if (resp.http.Mayfly-Until && std.time(resp.http.Mayfly-Until, now) <= now) {
        if (req.restarts < 3) {
            return (restart);
        }
        return (synth(503));
    }
    unset resp.http.xkey;
    unset resp.http.Surrogate-Key;
    unset resp.http.Mayfly-Until;
}

sub vcl_synth {
    set resp.http.Cache-Control = "private, no-store";
    if (req.method == "PURGE") {
        if (req.http.Mayfly-Purged) {
            set resp.http.Mayfly-Purged = req.http.Mayfly-Purged;
        }
        set resp.body = "";
        return (deliver);
    }
}
