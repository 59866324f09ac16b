// Amounts as people read them: cores, MiB and GiB, one unit in a column. Exact quantities stay in manifests and in what
// Kubernetes itself says. All values are in thousandths, as the engine and the snapshot have them.

const KIB = 1024;
const SUFFIXES: Record<string, number> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: KIB,
  Mi: KIB ** 2,
  Gi: KIB ** 3,
  Ti: KIB ** 4,
  Pi: KIB ** 5,
  Ei: KIB ** 6,
};

/** A quantity in thousandths, to be drawn and compared; undefined for a text that is none. */
export function thousandths(quantity: unknown): number | undefined {
  const match = /^([+-]?\d*\.?\d+|\d+\.)(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$/.exec(String(quantity));
  if (!match) return undefined;
  const value = match[2] ? Number(match[1] + match[2]) : Number(match[1]) * SUFFIXES[match[3] ?? ""]!;
  return Number.isFinite(value) ? value * 1000 : undefined;
}

const rounded = (value: number, decimals: number) =>
  value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

/** What an amount is counted in. Below each bound it has so many decimals, as in `kubectl headroom`. */
interface Unit {
  name: string;
  size: number;
  decimals: [below: number, decimals: number][];
}

const CORES: Unit = {
  name: "cores",
  size: 1,
  decimals: [
    [0.1, 3],
    [9.995, 2],
    [99.95, 1],
  ],
};
const MEBIBYTES: Unit = { name: "MiB", size: KIB ** 2, decimals: [[99.95, 1]] };
const GIBIBYTES: Unit = {
  name: "GiB",
  size: KIB ** 3,
  decimals: [
    [0.995, 2],
    [99.95, 1],
  ],
};
const ONES: Unit = { name: "", size: 1, decimals: [] };

/** The unit of a resource, or of a quota's name for it: one in which none of these amounts is below 1. */
function unitOf(resource: string, values: number[]): Unit {
  const name = resource.replace(/^(requests|limits)\./, "");
  if (name === "cpu") return CORES;
  if (!/^(memory|ephemeral-storage|hugepages-.*)$|storage$/.test(name)) return ONES;
  const isSmall = values.some((value) => value !== 0 && Math.abs(value) < KIB ** 3 * 1000);
  return isSmall ? MEBIBYTES : GIBIBYTES;
}

function numberIn({ size, decimals }: Unit, value: number): string {
  const amount = value / 1000 / size;
  const [, digits] = decimals.find(([below]) => (Math.abs(amount) || 1) < below) ?? [0, 0];
  return rounded(amount, digits);
}

/**
 * Numbers in one unit, whose name stands behind all of them: `0.50`, `24.4`; `512`, `2,048` and `MiB`. It is MiB where two
 * neighbors differ by less than GiB show: not `2.0 → 2.0 GiB`.
 */
export function inOneUnit(resource: string, values: number[]): { numbers: string[]; unit: string } {
  const unit = unitOf(resource, values);
  const numbers = values.map((value) => numberIn(unit, value));
  const readAlike = numbers.some(
    (number, index) => number === numbers[index + 1] && values[index] !== values[index + 1],
  );
  if (unit === GIBIBYTES && readAlike)
    return { numbers: values.map((value) => numberIn(MEBIBYTES, value)), unit: MEBIBYTES.name };
  return { numbers, unit: unit.name };
}

/** An amount of a resource by the resource's name: `0.50` of `cpu`, `45.7 GiB` of `requests.memory`, `17` of `pods`. */
export function amount(resource: string, value: number): string {
  const unit = unitOf(resource, [value]);
  return unit === CORES || unit === ONES ? numberIn(unit, value) : `${numberIn(unit, value)} ${unit.name}`;
}

/** `cores` behind amounts of CPU, where no column says it. */
export const withUnit = (resource: string, value: number): string =>
  amount(resource, value) + (/(^|\.)cpu$/.test(resource) ? " cores" : "");

/** A sentence of ours with its quantities as people write them: `memory limit 1229Mi -> 2Gi` as `memory limit 1.2 GiB → 2.0 GiB`. */
export const inWords = (text: string): string =>
  text
    .replaceAll(" -> ", " → ")
    .replaceAll(/(?<![\w./-])cpu(?![\w-])/g, "CPU")
    .replaceAll(/(?<![\w.-])(\d[\d.]*)(m|[KMGT]i)(?![\w-])/g, (quantity, number, suffix) => {
      if (suffix !== "m") return amount("memory", thousandths(quantity)!);
      return /cpu|core/i.test(text) ? withUnit("cpu", Number(number)) : quantity;
    });

/** `81%`; from ten times on `20 ×`. */
export function share(part: number, whole: number): string {
  if (whole <= 0) return part > 0 ? "full" : "";
  const percent = (part / whole) * 100;
  return percent >= 1000 ? `${Math.floor(percent / 100)} ×` : `${Math.floor(percent)}%`;
}

/** When a quota is full if its usage goes on to grow as it did: `full in 12 days`. */
export function forecast({ used, hard, perDay }: { used: number; hard: number; perDay?: number }): string {
  if (used >= hard) return used > 0 ? "full now" : "";
  if (perDay === undefined) return "no trend yet";
  const days = (hard - used) / perDay;
  if (!(perDay > 0) || days > 180) return perDay < 0 ? "shrinking" : "steady";
  return days < 1.5 ? "full within a day" : `full in ${Math.round(days)} days`;
}

/** `1 pod`, `2 pods` */
export const count = (number: number, noun: string): string =>
  `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** `88.0 of 160 GiB`, `0.60 → 2.35 of 2.00 cores`: in the unit of the whole. */
export function ofHard(resource: string, used: number, hard: number, after = used): string {
  const unit = unitOf(resource, [hard]);
  const changed = after === used ? "" : ` → ${numberIn(unit, after)}`;
  return `${numberIn(unit, used)}${changed} of ${numberIn(unit, hard)} ${unit.name}`.trimEnd();
}

/** `$1,241`, `1,241 EUR`: symbols stand before an amount, and codes behind it. Cents are shown where they matter, in a column by its largest amount. */
export function money(amount: string | number, currency = "", largest = Number(amount)): string {
  const number = Number(amount);
  const [sign, size] = [number < 0 ? "−" : "", Math.abs(number)];
  const digits = rounded(size, Math.abs(largest) < 100 ? 2 : 0);
  if (currency === "") return sign + digits;
  return /^\p{L}/u.test(currency) ? `${sign}${digits} ${currency}` : `${sign}${currency}${digits}`;
}
