// The types of preact.js, as the console uses it. Templates are not checked.
export type State<T> = [T, (value: T | ((before: T) => T)) => void];
export function html(strings: TemplateStringsArray, ...values: any[]): any;
export function render(view: any, parent: Element): void;
export function useState(initial: null): State<any>;
export function useState<T>(initial: T | (() => T)): State<T>;
export function useEffect(effect: () => void | (() => void), dependencies?: any[]): void;
export function useLayoutEffect(effect: () => void | (() => void), dependencies?: any[]): void;
export function useRef(initial: null): { current: any };
export function useRef<T>(initial: T): { current: T };
export function useCallback<T extends Function>(f: T, dependencies: any[]): T;
export function useErrorBoundary(callback: (fault: any) => void): any[];
export function textOf(value: any): string;
