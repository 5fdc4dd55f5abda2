/** What can go wrong, as types. A refusal of the server becomes the class of its status. */

/** Everything that this package throws by itself. */
export class DulyError extends Error {
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No answer: the connection failed, and so did every retry. What was asked may have been done. */
export class TransportError extends DulyError {}

/** The run belongs to somebody else by now. What this handler does counts no more. */
export class LeaseLost extends DulyError {}

/** A webhook that was not signed by one of the secrets, or is too old. */
export class WebhookError extends DulyError {}

/** One place of a request that is wrong. */
export interface Fault {
  pointer: string;
  message: string;
  did_you_mean?: string;
}

export interface Problem {
  status?: number;
  code?: string;
  detail?: string;
  request_id?: string;
  retryable?: boolean;
  errors?: Fault[];
}

/** The server refused. `code` is one word for programs, `detail` a sentence with the way out. */
export class ApiError extends DulyError {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly requestId: string;
  readonly retryable: boolean;
  readonly errors: Fault[];
  /** Seconds that the server asked for. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem, status: number, retryAfter?: number) {
    super(`${status} ${problem.code ?? "unknown"}: ${problem.detail ?? ""}`);
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.detail = problem.detail ?? "";
    this.requestId = problem.request_id ?? "";
    this.retryable = problem.retryable ?? [429, 502, 503, 504].includes(status);
    this.errors = problem.errors ?? [];
    this.retryAfter = retryAfter;
  }
}

/** 400, 413, 415, 422: the request itself is wrong. `errors` points at the fields. */
export class InvalidRequest extends ApiError {}
/** The idempotency key came with another body before. */
export class KeyReused extends InvalidRequest {}
/** 401: no key, or one that is not known. */
export class Unauthorized extends ApiError {}
/** 403: the key does not allow this. */
export class Forbidden extends ApiError {}
/** 404, or 410 when it is past retention. */
export class NotFound extends ApiError {}
/** 409: its state, or another's name, does not allow this. */
export class Conflict extends ApiError {}
/** 412, 428: somebody changed it since it was read, or no version was named. */
export class VersionMismatch extends ApiError {}
/** 429: too much is waiting. */
export class Busy extends ApiError {}
/** 502, 503, 504: not now. */
export class Unavailable extends ApiError {}
/** It may have been done. The same request with the same key tells. */
export class OutcomeUnknown extends Unavailable {}
/** 507: no room. Nothing was done. */
export class StoreFull extends ApiError {}

type Kind = new (problem: Problem, status: number, retryAfter?: number) => ApiError;

const BY_STATUS: ReadonlyMap<number, Kind> = new Map<number, Kind>([
  [400, InvalidRequest],
  [401, Unauthorized],
  [403, Forbidden],
  [404, NotFound],
  [409, Conflict],
  [410, NotFound],
  [412, VersionMismatch],
  [413, InvalidRequest],
  [415, InvalidRequest],
  [422, InvalidRequest],
  [428, VersionMismatch],
  [429, Busy],
  [502, Unavailable],
  [503, Unavailable],
  [504, Unavailable],
  [507, StoreFull],
]);
const BY_CODE: ReadonlyMap<string, Kind> = new Map<string, Kind>([
  ["idempotency_key_reused", KeyReused],
  ["outcome_unknown", OutcomeUnknown],
]);

/** The typed error of a problem document. */
export function fromProblem(problem: Problem, status: number, retryAfter?: number): ApiError {
  const kind = BY_CODE.get(problem.code ?? "") ?? BY_STATUS.get(status) ?? ApiError;
  return new kind(problem, status, retryAfter);
}

/** May the same request succeed later? An unknown outcome may: requests carry a key. */
export function mayPass(error: unknown): boolean {
  if (error instanceof ApiError) return error.retryable || error.code === "outcome_unknown";
  return error instanceof TransportError;
}
