/** All that a plan is decided from (scheduler/profile/machine.py): a profile as JSON, with look-ups. */

import { Corrections } from "./corrections.js";

/** A machine: GPU, links, kernels' staircases, CPU, and what runs say of them. Frozen. */
export class MachineProfile {
  constructor({ device, source, cpu, gpu = null, links = [], kernels = [], ...rest }) {
    Object.assign(this, { device, source, cpu, gpu, links, kernels });
    this.measuredAt = rest.measured_at ?? null;
    this.corrections = new Corrections(rest.corrections ?? []);
    this.models = new Map(
      kernels.map((model) => [`${model.kernel} ${model.dtype} ${model.tile}`, model]),
    );
    Object.freeze(this);
  }

  /** The staircase of a kernel; undefined where this machine does not run it. */
  findKernelModel(spec) {
    return this.models.get(`${spec.name} ${spec.dtype} ${spec.tile}`);
  }

  /** The way from such memory to the GPU. */
  findLink(memory) {
    return this.links.find((link) => link.memory === memory);
  }

  /** The CPU's rate for an element type. */
  findCpuRate(dtype) {
    return this.cpu.rates.find((rate) => rate.dtype === dtype);
  }

  /** The ways to share the CPU with a GPU that is fed from such memory. */
  listShares(memory) {
    return this.cpu.beside_gpu.filter((share) => share.memory === memory);
  }
}
