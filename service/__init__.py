"""HTTP, jobs, storage, pages and the command line. Computes nothing and never imports CuPy.

In the order of a request: `app` has the routes, `parts` makes all objects that they use from
`settings`, and starts and stops them; `api/` receives a request and answers it; `tenants/` says who
calls; `storage/` has the matrices and the database; `jobs/` brings products to the engine in turn;
`engine/` is the process that computes, as the service sees it. `server/` listens until a signal
comes; `cli/` is the `wavetrim` command, `page/` what a browser shows.

The rest: `errors` are the refusals, `threads` keeps blocking calls off the event loop,
`housekeeping` removes what is too old, `telemetry/` has metrics, traces and the log, `cursor` marks
a place in a list, `descriptors` limits connections, `option_fields` are options on the wire.
`machine_settings` are those settings that products without a service read, too, as `local_options`
makes them. Commands use `version`, `libraries` and `folders`.

Times that are stored come from `clock`; time-outs use clocks that do not step.
"""
