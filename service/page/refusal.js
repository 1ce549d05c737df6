/** An error for what cannot be planned: the field, its value, and what would be accepted. */
export class Refusal extends Error {
  constructor(field, value, limit) {
    super(`${field} is ${JSON.stringify(value)}; it must be ${limit}`);
    this.field = field;
    this.limit = limit;
  }
}
