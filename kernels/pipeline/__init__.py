"""Products of matrices in host memory on a GPU: copies in, kernels and copies out overlap.

In the order of a product's way:

1. `host_product` is what is asked. `panels` says how its rows may be cut.
2. A schedule is data: `steps` lists them for one `Cut`, six numbers. A step is bytes in, a kernel
   over rows × columns × depth, bytes out, and what each waits for. `schedule` times the list by one
   recurrence over three queues (copies in, kernels, copies out), at the machine's rates. `cuts`
   decides the cut: it times a small family and takes the fastest, remembered by shape. The planner
   predicts with the same list.
3. `buffers`, `places` and `arena` say where each step works in device memory. Places stay
   with the plan, and with them the prepared launches of its steps, for each kernel, α, β and number
   of multiprocessors (`launch_cache`), which share one memory for partial sums.
4. `pipeline` runs products. From page-locked memory (`direct_path`) the steps are recorded once
   as a `command_buffer`, which C enqueues (`submission`). Otherwise (`staged_path`) `flow` enqueues
   them one by one. `arrivals` tells which rows are final, and reads the times of steps that are
   done when there is nothing to launch.

`residents` are operands that stay on the GPU between products, in memory of their own. No step of a
product copies them in. Buffers go first: where both do not fit, residents leave.

`exchange` is for GPUs that share a product: each fetches a part of B over its own link and copies
the rest from the others, so that B crosses the links once.

Events are used again by the next product, and operands are looked at once. Nothing of the caller's
is kept, except for what `keep` is given with a key. Events that can be timed delay a stream, so a
command buffer has them only if it is asked for times. Pageable products of up to 12 MiB are copied
whole through page-locked memory: enqueueing steps from Python takes longer.
"""
