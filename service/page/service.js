/** The service that this page came from, if it came from one; the key is kept for this tab only. */

import { Refusal } from "./model/refusal.js";

const KEY = "wavetrim.key";

/** Calls to /v1. */
export class Service {
  constructor() {
    const { home, docs } = document.documentElement.dataset;
    this.present = home === "service";
    this.docs = this.present && docs === "on";
  }

  /** Keep a key until the tab is closed. */
  setKey(key) {
    sessionStorage.setItem(KEY, key);
  }

  /** A JSON answer of the service as it is now; a `KeyMissing` where a key is needed. */
  async get(path) {
    const key = sessionStorage.getItem(KEY);
    const headers = key ? { Authorization: `Bearer ${key}` } : {};
    const response = await fetch(path, { headers, credentials: "omit", cache: "no-store" });
    if (response.status === 401 || response.status === 403) throw new KeyMissing(key !== null);
    if (response.status === 422) throw readRefusal(await response.json());
    if (!response.ok) throw new Error(`${path} answered ${response.status}`);
    return response.json();
  }
}

function readRefusal({ field, value, limit }) {
  return new Refusal(field, value, limit);
}

/** The service asks for a key; `refused`: whether one was sent. */
export class KeyMissing extends Error {
  constructor(refused) {
    super("The service asks for a key.");
    this.refused = refused;
  }
}
