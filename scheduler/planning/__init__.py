"""From a problem to a plan, in the order in which it is decided.

    tiles  = ⌈rows / tile rows⌉ · ⌈N / tile columns⌉
    waves  = ⌈tiles / slots⌉                                  slots: blocks that run at once
    wave   = slots · tile · (2·K / rate + element / device memory's rate)      seconds
    gpu(F) = the fastest of a dozen lists of copies in, launches (waves · wave), copies out
    cpu(F) = start + flops / rate + bytes read / read rate + bytes written / write rate
    F      = argmin max(gpu(F), cpu(F)) over rows of tiles

1. `candidates`: two or three kernels that run on this GPU, can be limited to the requested
   multiprocessors, and have the requested accuracy: *strict* (IEEE, in the order of k but for
   divided tails), *library* (as NumPy and cuBLAS, which sums float64 on tensor cores; the default),
   *float32* or *float64* (errors as of sums in that type, tensor cores allowed). A product whose
   copies are short is left to cuBLAS, in one step. If any kernel was measured, those whose rates
   are only assumed are left out.
2. `gpu_rows`: the time of the GPU's rows, by the fastest of a dozen lists of parts
   (`kernels/schedule`). The list that is priced is the list that runs. `team`: several GPUs.
3. `cpu_rows`: the time of the CPU's rows.
4. `plan`: F, and all that follows from it: which device computes which rows, and when it is done.
5. `choice`: the fastest of the GPU alone, the CPU alone, and the split with the F at which both
   meet, if that saves enough; on one GPU and on more. Plans are kept by shape.

`description` is a plan as JSON, with the source of each number, the seconds over F and when each
device is at work (`drawing`); `picture` draws it for notebooks.

Runs correct predictions by a factor for each device and bottleneck (`profile/corrections`).

`residency` decides when a B that comes again stays on the GPUs, by the plans with and without it
there. `device_sets` chooses which devices work at which product while several wait. `placing`
adds the network to a node of a cluster.
"""
