"""HTTP, jobs, storage, pages and the command line. Computes nothing and never imports CuPy.

In the order of a request: `app` has the routes, `parts` what they use, made from `settings`; `api/`
receives a request and answers it; `tenants/` says who calls; `storage/` has the matrices and the
database; `jobs/` brings products to the engine in turn; `engine/` is the process that computes, as
the service sees it. `grpc/` is one more way in. `cli/` is the `wavetrim` command, `page/` what a
browser shows.

Besides: `errors` says what is refused, `threads` keeps blocking calls off the event loop,
`housekeeping` removes what is too old, `telemetry/` tells what happens, `cursor` marks a place in a
list. `unix_socket` is for callers on this host, `descriptors` says how many connections fit the
process, `key_file` has the key, `setting_refusal` says what is wrong with a setting. `version`,
`libraries` and `local_options` are for commands.

Times that are kept come from `clock`, which sees the wall clock step; time-outs come from clocks
that do not step.
"""
