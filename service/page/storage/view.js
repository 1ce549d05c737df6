/** Storage and devices: matrices, arena and disk; GPUs, nodes and the machine's profile. */

import { make } from "../dom.js";
import { Notice } from "../notice.js";
import { Section } from "../section.js";
import { tellArena, tellDevices, tellDisk, tellNodes } from "./devices.js";
import { MatrixTable } from "./matrix_table.js";
import { tellProfile } from "./profile.js";

const REFRESH_MS = 5000;

export class View {
  constructor(root, frame) {
    this.service = frame.service;
    this.notice = new Notice(frame.service, () => this.show());
    this.matrices = new MatrixTable(frame.service, (error) => this.notice.tell(error));
    this.sections = {
      arena: new Section("arena", "The arena: matrices in shared memory"),
      disk: new Section("disk", "The disk of the matrices"),
      devices: new Section("devices", "What computes here"),
      nodes: new Section("nodes", "Nodes of the cluster"),
      profile: new Section("profile", "What is known of this machine"),
    };
    const { arena, disk, devices, nodes, profile } = this.sections;
    root.append(
      make("h1", { className: "sr", textContent: "Storage and devices" }),
      make(
        "div",
        { className: "page-column" },
        this.notice.element,
        this.matrices.element,
        make(
          "div",
          { className: "pair" },
          arena.element,
          make("div", { className: "stack" }, disk.element, devices.element),
        ),
        nodes.element,
        profile.element,
      ),
    );
    this.underWay = 0;
    this.timer = setInterval(() => this.refresh(), REFRESH_MS);
  }

  close() {
    clearInterval(this.timer);
  }

  /** Update everything, unless the page is hidden, or an answer is still awaited. */
  refresh() {
    if (!document.hidden && this.underWay === 0) this.show();
  }

  async show() {
    const { service, sections } = this;
    this.underWay += 1;
    try {
      const [me, devices, profile] = await Promise.all([
        service.get("v1/me"),
        service.get("v1/devices"),
        service.get("v1/profile"),
      ]);
      await this.matrices.load(me);
      this.notice.clear();
      fill(sections.arena, tellArena(devices.arena));
      fill(sections.disk, tellDisk(devices.disk));
      fill(sections.devices, tellDevices(devices));
      fill(sections.nodes, tellNodes(devices.nodes));
      fill(sections.profile, tellProfile(profile));
    } catch (error) {
      this.notice.tell(error, null, true);
    } finally {
      this.underWay -= 1;
    }
  }
}

/** Show the content of a section; unchanged content is left, with scroll position and focus. */
function fill({ element, body }, content) {
  element.hidden = content === null;
  const next = make("div", {}, ...(content ?? []));
  if (next.innerHTML !== body.innerHTML) body.replaceChildren(...next.childNodes);
}
