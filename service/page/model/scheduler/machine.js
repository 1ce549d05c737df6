/** The profile of a machine: GPU, links, kernels and CPU (scheduler/profile/machine.py).
 *
 * Its fields are those of the profile's JSON document, which `/v1/profile` answers.
 */

import { Corrections } from "./corrections.js";

/** All figures of a machine that decide plans. Frozen.
 *
 * `beside`: the profiles of the machine's other GPUs, in CUDA's order, with the same CPU and
 * corrections.
 */
export class MachineProfile {
  constructor({ device, source, cpu, gpu = null, links = [], kernels = [], ...rest }) {
    Object.assign(this, { device, source, cpu, gpu, links, kernels });
    this.index = rest.index ?? 0;
    this.joint = rest.joint ?? [];
    this.peer_gbytes_per_second = rest.peer_gbytes_per_second ?? 0;
    this.corrections =
      rest.corrections instanceof Corrections
        ? rest.corrections
        : new Corrections(rest.corrections, Boolean(rest.measured_at));
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

  /** The joint rates of this number of GPUs; undefined if they were not measured. */
  findJoint(memory, gpus) {
    return this.joint.find((one) => one.memory === memory && one.gpus === gpus);
  }

  /** The times of a kernel; undefined if this machine cannot run it. */
  findKernelModel(spec) {
    return this.models.get(`${spec.name} ${spec.dtype} ${spec.tile}`);
  }

  /** The link for a kind of memory; undefined without a GPU. */
  findLink(memory) {
    return this.links.find((link) => link.memory === memory);
  }

  /** The CPU's rate for an element type. */
  findCpuRate(dtype) {
    return this.cpu.rates.find((rate) => rate.dtype === dtype);
  }

  /** The ways to share the CPU in a split, for a kind of memory. */
  listShares(memory) {
    return this.cpu.beside_gpu.filter((share) => share.memory === memory);
  }
}
