// Creates DOM elements. Content from files is set as text, never as HTML.

type Child = Node | string | number | undefined | false;
interface Props {
  readonly class?: string;
  readonly title?: string;
  readonly type?: string;
  readonly [attribute: `aria-${string}` | `data-${string}`]: string;
  readonly role?: string;
  readonly hidden?: '';
  readonly tabindex?: string;
  readonly onclick?: () => void;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  { onclick, ...attributes }: Props = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (onclick) element.addEventListener('click', onclick);
  for (const child of children)
    if (child !== undefined && child !== false) element.append(typeof child === 'number' ? String(child) : child);
  return element;
}

/** Sets the text of an element if it differs, so that unchanged elements are not drawn again. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** A square in a run's colour. */
export function swatch(color: string): HTMLElement {
  const square = h('i', { class: 'swatch' });
  square.style.background = color;
  return square;
}

export const cssColor = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
