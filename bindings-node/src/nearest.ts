/** What somebody may have meant. */

/** The same for `sessionTimeout`, `session_timeout` and `SessionTimeout`. */
function plain(name: string): string {
  return name.replace(/[_-]/g, '').toLowerCase();
}

/** How many letters have to be added, removed or changed to make one word of the other. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [done, letter] of a.split("").entries()) {
    const next = [done + 1];
    for (let index = 0; index < b.length; index++) {
      const [above = 0, diagonal = 0, left = 0] = [row[index + 1], row[index], next[index]];
      next.push(Math.min(above + 1, left + 1, diagonal + (letter === b[index] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** The known name that is most like this one; none if it is like none: more than a third of its letters differ. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  // A long name is a mistake of another kind, and would take long.
  if (name.length > 50) return undefined;
  const [best] = known
    .map((candidate) => ({ candidate, far: distance(plain(name), plain(candidate)) }))
    .sort((one, other) => one.far - other.far);
  return best !== undefined && best.far <= Math.max(1, name.length / 3) ? best.candidate : undefined;
}
