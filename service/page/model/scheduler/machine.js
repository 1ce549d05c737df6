/** All that a plan is decided from (scheduler/profile/machine.py): a profile as JSON, with look-ups. */

import { Corrections } from "./corrections.js";

/** A machine: GPUs, links, kernels' staircases, CPU, and what runs say of them. Frozen.
 *
 * `beside` are its other GPUs, in CUDA's order; runs teach all of them.
 */
export class MachineProfile {
  constructor({ device, source, cpu, gpu = null, links = [], kernels = [], ...rest }) {
    Object.assign(this, { device, source, cpu, gpu, links, kernels });
    this.index = rest.index ?? 0;
    this.joint = rest.joint ?? [];
    this.peer_gbytes_per_second = rest.peer_gbytes_per_second ?? 0;
    this.corrections =
      rest.corrections instanceof Corrections ? rest.corrections : new Corrections(rest.corrections);
    const { corrections } = this;
    this.beside = (rest.beside ?? []).map((one) =>
      one instanceof MachineProfile ? one : new MachineProfile({ cpu, ...one, corrections }),
    );
    this.models = new Map(
      kernels.map((model) => [`${model.kernel} ${model.dtype} ${model.tile}`, model]),
    );
    Object.freeze(this);
  }

  vary(changes) {
    return new MachineProfile({ ...this, ...changes });
  }

  /** A profile for each GPU of the machine, this one first; none without a GPU. */
  get gpus() {
    return this.gpu === null ? [] : [this, ...this.beside];
  }

  /** The machine with its first `count` GPUs. */
  takeGpus(count) {
    return this.vary({ beside: this.beside.slice(0, count - 1) });
  }

  /** A machine with `count` GPUs like this one. */
  repeatGpu(count) {
    const indices = Array.from({ length: count - 1 }, (_, index) => index + 1);
    return this.vary({ beside: indices.map((index) => this.vary({ index, beside: [] })) });
  }

  /** The measured rates of the links of so many GPUs; undefined if they were not measured. */
  findJoint(memory, gpus) {
    return this.joint.find((one) => one.memory === memory && one.gpus === gpus);
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
