// SPDX-License-Identifier: Apache-2.0
// The names of spans, attributes and events, pinned to OpenTelemetry's semantic
// conventions v1.41.0: the last release with the GenAI pages in it, which moved
// to a repository of their own and change there. Names that OpenTelemetry lacks
// begin with troupe.*. A newer set of names is a change of this file alone.
#pragma once

#include <string_view>

namespace troupe::semconv {

inline constexpr std::string_view kSchemaUrl = "https://opentelemetry.io/schemas/1.41.0";

// resource
inline constexpr std::string_view kServiceName = "service.name";
inline constexpr std::string_view kServiceVersion = "service.version";
inline constexpr std::string_view kServiceInstanceId = "service.instance.id";
inline constexpr std::string_view kProcessPid = "process.pid";
inline constexpr std::string_view kHostName = "host.name";

// http
inline constexpr std::string_view kHttpRequestMethod = "http.request.method";
inline constexpr std::string_view kHttpRoute = "http.route";
inline constexpr std::string_view kUrlPath = "url.path";
inline constexpr std::string_view kHttpResponseStatusCode = "http.response.status_code";
inline constexpr std::string_view kErrorType = "error.type";

// gen_ai
inline constexpr std::string_view kOperationName = "gen_ai.operation.name";
inline constexpr std::string_view kProviderName = "gen_ai.provider.name";
inline constexpr std::string_view kOldSystem = "gen_ai.system";  // kProviderName until v1.36
inline constexpr std::string_view kRequestModel = "gen_ai.request.model";
inline constexpr std::string_view kRequestMaxTokens = "gen_ai.request.max_tokens";
inline constexpr std::string_view kRequestTemperature = "gen_ai.request.temperature";
inline constexpr std::string_view kRequestTopP = "gen_ai.request.top_p";
inline constexpr std::string_view kRequestTopK = "gen_ai.request.top_k";
inline constexpr std::string_view kRequestSeed = "gen_ai.request.seed";
inline constexpr std::string_view kRequestStream = "gen_ai.request.stream";
inline constexpr std::string_view kResponseId = "gen_ai.response.id";
inline constexpr std::string_view kResponseModel = "gen_ai.response.model";
inline constexpr std::string_view kResponseFinishReasons = "gen_ai.response.finish_reasons";
inline constexpr std::string_view kResponseTimeToFirstChunk = "gen_ai.response.time_to_first_chunk";
inline constexpr std::string_view kUsageInputTokens = "gen_ai.usage.input_tokens";
inline constexpr std::string_view kUsageOutputTokens = "gen_ai.usage.output_tokens";
inline constexpr std::string_view kUsageCachedTokens = "gen_ai.usage.cache_read.input_tokens";

// only where contents are captured
inline constexpr std::string_view kInputMessages = "gen_ai.input.messages";
inline constexpr std::string_view kOutputMessages = "gen_ai.output.messages";
inline constexpr std::string_view kDetailsEvent = "gen_ai.client.inference.operation.details";

inline constexpr std::string_view kChat = "chat";
inline constexpr std::string_view kTextCompletion = "text_completion";
inline constexpr std::string_view kEmbeddings = "embeddings";
inline constexpr std::string_view kTroupe = "troupe";

// ours: attributes
inline constexpr std::string_view kRequestId = "troupe.request_id";  // X-Request-Id
inline constexpr std::string_view kKept = "troupe.kept";             // not sampled, but "error" or "slow"
inline constexpr std::string_view kRun = "troupe.run";  // 1, then one more after each loss of pages
inline constexpr std::string_view kCachedTokens = "troupe.cached_tokens";
inline constexpr std::string_view kComputedTokens = "troupe.computed_tokens";
inline constexpr std::string_view kTokensFromHost = "troupe.tokens_from_host";
inline constexpr std::string_view kTokensFromDisk = "troupe.tokens_from_disk";
inline constexpr std::string_view kRecomputedTokens = "troupe.recomputed_tokens";
inline constexpr std::string_view kWorker = "troupe.worker.id";
inline constexpr std::string_view kModelIndex = "troupe.model.index";
inline constexpr std::string_view kEpoch = "troupe.worker.epoch";
inline constexpr std::string_view kNumBatches = "troupe.batches";  // of prefill and decode
inline constexpr std::string_view kMeanBatchSequences = "troupe.batches.mean_sequences";
inline constexpr std::string_view kBatchSeconds = "troupe.batches.seconds";
inline constexpr std::string_view kWaitSeconds = "troupe.wait_seconds";  // of the phase, in none of them
inline constexpr std::string_view kBatchId = "troupe.batch.id";
inline constexpr std::string_view kBatchTokens = "troupe.batch.tokens";
inline constexpr std::string_view kBatchSequences = "troupe.batch.sequences";
inline constexpr std::string_view kBatchPrefillTokens = "troupe.batch.prefill_tokens";
inline constexpr std::string_view kBatchDecodeSequences = "troupe.batch.decode_sequences";
inline constexpr std::string_view kBatchOutputRows = "troupe.batch.output_rows";
inline constexpr std::string_view kBatchDecodeKeys = "troupe.batch.decode_keys";
inline constexpr std::string_view kBatchPrefillPairs = "troupe.batch.prefill_pairs";
inline constexpr std::string_view kBatchCopies = "troupe.batch.copies";
inline constexpr std::string_view kNetworkSeconds = "troupe.batch.network_seconds";
inline constexpr std::string_view kNumRunning = "troupe.num_requests_running";
inline constexpr std::string_view kNumWaiting = "troupe.num_requests_waiting";

inline constexpr std::string_view kReservedTokens = "troupe.reserved_tokens";  // of predict and overrun
inline constexpr std::string_view kOverrunOutcome = "troupe.overrun.outcome";  // one of the two:
inline constexpr std::string_view kGrown = "grown";
inline constexpr std::string_view kGaveWay = "gave_way";  // preempted follows

// ours: spans within a request, in the order in which they come
inline constexpr std::string_view kEncode = "encode";
inline constexpr std::string_view kQueue = "queue";
inline constexpr std::string_view kAdmit = "admit";
inline constexpr std::string_view kLoad = "load";
inline constexpr std::string_view kPrefill = "prefill";
inline constexpr std::string_view kDecode = "decode";
inline constexpr std::string_view kSuspended = "suspended";
inline constexpr std::string_view kIteration = "iteration";

// ours: events of a request's root span
inline constexpr std::string_view kFirstTokenEvent = "first_token";
inline constexpr std::string_view kPreemptedEvent = "preempted";
inline constexpr std::string_view kResumedEvent = "resumed";
inline constexpr std::string_view kSuspendedEvent = "suspended";
inline constexpr std::string_view kWorkerLostEvent = "worker_lost";
inline constexpr std::string_view kRestartedEvent = "restarted";
inline constexpr std::string_view kContextLostEvent = "context_lost";
inline constexpr std::string_view kPredictEvent = "predict";  // its answer's length was forecast
inline constexpr std::string_view kOverrunEvent = "overrun";  // its answer nears the end of what was reserved

}  // namespace troupe::semconv
