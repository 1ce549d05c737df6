/** Shapes and element types of stored matrices, each requested once. */

/** The shapes that the jobs of the page need. */
export class Shapes {
  constructor(service) {
    this.service = service;
    this.known = new Map();
  }

  /** A matrix as the service describes it; null if it was deleted. */
  find(id) {
    if (!this.known.has(id)) {
      const matrix = this.service.get(`v1/matrices/${id}`).catch(() => null);
      this.known.set(id, matrix);
    }
    return this.known.get(id);
  }

  /** The product of a job's request: {m, n, k, dtype}; null if an operand was deleted. */
  async findProduct(request) {
    const [a, b] = await Promise.all([this.find(request.a), this.find(request.b)]);
    if (a === null || b === null) return null;
    return { m: a.shape[0], n: b.shape[1], k: a.shape[1], dtype: a.dtype };
  }
}
