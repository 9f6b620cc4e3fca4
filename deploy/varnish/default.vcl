vcl 4.1;

# An example: start varnishd with -f on this file, and with MAYFLY_PURGE_SECRET in
# its environment. See docs/operations.md.

backend mayfly {
    .host = "127.0.0.1";
    .port = "7420";
}

include "mayfly.vcl";
