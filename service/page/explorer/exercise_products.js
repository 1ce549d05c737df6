/** The product that the explorer opens with, and those of the exercises, in their order.
 *
 * Both are JSON: docs/recorded_answers.py reads them, too.
 *
 * `state` is the state of the page. `others` are changes of it; an answer is compared with their
 * plans. `rows` are the values of F that the slider has, besides the model's choice.
 */
export const OPENING = {
  "state": {
    "m": 896, "n": 1536, "k": 1024, "dtype": "float64", "memory": "pinned",
    "device": "T4", "threads": 2, "f": 0
  },
  "others": {},
  "rows": [0, 32, 96, 128, 192, 256, 384, 512, 896]
};

export const PRODUCTS = [
  {
    "state": {
      "m": 4096, "n": 4096, "k": 4096, "dtype": "float32", "memory": "pinned",
      "device": "A100 SXM 40", "threads": 16, "kernel": "cublas", "f": 0
    },
    "others": {},
    "rows": [0, 128, 256, 384, 512, 640, 768]
  },
  {
    "state": {
      "m": 2048, "n": 5121, "k": 8192, "dtype": "float32", "memory": "pinned",
      "device": "T4", "threads": 16, "kernel": "register", "tile": "64x128x16", "f": 0
    },
    "others": { "before": { "n": 5120 } },
    "rows": [0, 128, 256]
  },
  {
    "state": {
      "m": 4096, "n": 4096, "k": 4096, "dtype": "float32", "memory": "pinned",
      "device": "A100 SXM 40", "threads": 16, "kernel": "cublas", "f": 0
    },
    "others": {},
    "rows": [0, 128, 256, 384, 512, 640, 768]
  },
  {
    "state": {
      "m": 4096, "n": 4096, "k": 4096, "dtype": "float64", "memory": "pinned",
      "device": "T4", "threads": 2, "f": 0
    },
    "others": { "pageable": { "memory": "pageable" } },
    "rows": [0, 128, 256, 384, 512, 640, 1024, 2048, 4096]
  },
  {
    "state": {
      "m": 4096, "n": 4096, "k": 4096, "dtype": "float64", "memory": "pinned",
      "device": "T4", "threads": 4
    },
    "others": { "before": { "threads": 2 } },
    "rows": [0, 512, 1024, 2048]
  },
  {
    "state": {
      "m": 16384, "n": 16384, "k": 256, "dtype": "float32", "memory": "pinned",
      "device": "H200", "threads": 16
    },
    "others": {},
    "rows": [0, 1024, 2048, 4096]
  },
  {
    "state": {
      "m": 8192, "n": 8192, "k": 8192, "dtype": "float32", "memory": "pinned",
      "device": "H200", "threads": 16
    },
    "others": {
      "k": { "m": 16384, "n": 16384, "k": 64 },
      "size": { "m": 16384, "n": 16384, "k": 16384 },
      "pageable": { "memory": "pageable" }
    },
    "rows": [0, 256, 1024]
  },
  {
    "state": {
      "m": 4096, "n": 4096, "k": 4096, "dtype": "float32", "memory": "pageable",
      "device": "host-h100", "sms": 8
    },
    "others": {},
    "rows": []
  }
];
