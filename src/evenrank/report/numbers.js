// Numbers, formatted as in Python: evenrank._internal.table.figure -----------------------------------

// Python rounds an exact half to the even digit, toFixed and toExponential away from zero. Given their text, the
// exact digits and how many of them are kept, undo rounding up from an even digit.
function halfToEven(text, exact, kept) {
  const shown = exact.slice(0, kept).replace(/\.$/, "");
  return /^50*$/.test(exact.slice(kept)) && /[02468]$/.test(shown) ? shown : text;
}

function fixed(x, digits) {
  const exact = x.toFixed(100);
  return halfToEven(x.toFixed(digits), exact, exact.indexOf(".") + 1 + digits);
}

function scientific(x) {
  const [digits, power] = x.toExponential(2).split("e"), [exact] = x.toExponential(100).split("e");
  return `${halfToEven(digits, exact, 4)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

const grouped = digits => digits.replace(/\B(?=(\d{3})+$)/g, ",");

function figure(x) {
  if (Number.isNaN(x)) return "–";
  const sign = x < 0 || Object.is(x, -0) ? "-" : "", size = Math.abs(x);
  if (size >= 1e9 || (size > 0 && size < 1e-3)) return sign + scientific(size);
  if (size >= 1000) return sign + grouped(fixed(size, 0));
  return sign + fixed(size, size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4);
}

const signed = z => (z > 0 ? "+" : "") + figure(z);
const write = (have, x) => (have === "z" ? signed(x) : figure(x));
const whole = n => grouped(String(n));
