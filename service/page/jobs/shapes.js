/** Shapes and types of stored matrices, each asked for once. */

/** What a page's jobs multiply. */
export class Shapes {
  constructor(service) {
    this.service = service;
    this.known = new Map();
  }

  /** A matrix as the service describes it; null where it is gone. */
  find(id) {
    if (!this.known.has(id)) {
      const gone = () => null;
      this.known.set(id, this.service.get(`v1/matrices/${id}`).catch(gone));
    }
    return this.known.get(id);
  }

  /** The product of a job's request: {m, n, k, dtype}; null where an operand is gone. */
  async findProduct(request) {
    const [a, b] = await Promise.all([this.find(request.a), this.find(request.b)]);
    if (a === null || b === null) return null;
    return { m: a.shape[0], n: b.shape[1], k: a.shape[1], dtype: a.dtype };
  }
}
