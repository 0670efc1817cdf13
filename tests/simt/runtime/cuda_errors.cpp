// SPDX-License-Identifier: Apache-2.0
// Names and texts of CUDA's errors.
#include <cuda_runtime_api.h>

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define TROUPE_NAME(name) \
  case name: return #name
    TROUPE_NAME(cudaSuccess);
    TROUPE_NAME(cudaErrorInvalidValue);
    TROUPE_NAME(cudaErrorMemoryAllocation);
    TROUPE_NAME(cudaErrorInitializationError);
    TROUPE_NAME(cudaErrorInvalidConfiguration);
    TROUPE_NAME(cudaErrorInvalidPitchValue);
    TROUPE_NAME(cudaErrorInvalidHostPointer);
    TROUPE_NAME(cudaErrorInvalidDevicePointer);
    TROUPE_NAME(cudaErrorInvalidMemcpyDirection);
    TROUPE_NAME(cudaErrorInsufficientDriver);
    TROUPE_NAME(cudaErrorInvalidDeviceFunction);
    TROUPE_NAME(cudaErrorNoDevice);
    TROUPE_NAME(cudaErrorInvalidDevice);
    TROUPE_NAME(cudaErrorNoKernelImageForDevice);
    TROUPE_NAME(cudaErrorECCUncorrectable);
    TROUPE_NAME(cudaErrorInvalidResourceHandle);
    TROUPE_NAME(cudaErrorIllegalState);
    TROUPE_NAME(cudaErrorNotReady);
    TROUPE_NAME(cudaErrorIllegalAddress);
    TROUPE_NAME(cudaErrorLaunchOutOfResources);
    TROUPE_NAME(cudaErrorLaunchTimeout);
    TROUPE_NAME(cudaErrorAssert);
    TROUPE_NAME(cudaErrorHostMemoryAlreadyRegistered);
    TROUPE_NAME(cudaErrorHostMemoryNotRegistered);
    TROUPE_NAME(cudaErrorIllegalInstruction);
    TROUPE_NAME(cudaErrorMisalignedAddress);
    TROUPE_NAME(cudaErrorLaunchFailure);
    TROUPE_NAME(cudaErrorNotPermitted);
    TROUPE_NAME(cudaErrorNotSupported);
    TROUPE_NAME(cudaErrorStreamCaptureUnsupported);
    TROUPE_NAME(cudaErrorStreamCaptureInvalidated);
    TROUPE_NAME(cudaErrorStreamCaptureMerge);
    TROUPE_NAME(cudaErrorStreamCaptureUnmatched);
    TROUPE_NAME(cudaErrorStreamCaptureUnjoined);
    TROUPE_NAME(cudaErrorStreamCaptureIsolation);
    TROUPE_NAME(cudaErrorStreamCaptureImplicit);
    TROUPE_NAME(cudaErrorCapturedEvent);
    TROUPE_NAME(cudaErrorStreamCaptureWrongThread);
    TROUPE_NAME(cudaErrorTimeout);
    TROUPE_NAME(cudaErrorGraphExecUpdateFailure);
    TROUPE_NAME(cudaErrorUnknown);
#undef TROUPE_NAME
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoDevice: return "no such device here";
    case cudaErrorInvalidResourceHandle: return "the handle is not valid";
    case cudaErrorIllegalState: return "not in this state";
    case cudaErrorNotReady: return "work has not ended yet";
    case cudaErrorIllegalAddress: return "a kernel did what no GPU promises to survive";
    case cudaErrorLaunchFailure: return "an operation failed on the device";
    case cudaErrorNotPermitted: return "not permitted in a host function";
    case cudaErrorStreamCaptureUnsupported: return "not while a stream captures";
    case cudaErrorStreamCaptureInvalidated: return "an earlier call has spoilt the capture";
    case cudaErrorStreamCaptureUnjoined: return "a stream of the capture was not joined again";
    case cudaErrorStreamCaptureIsolation: return "a capture can't wait for work outside of it";
    case cudaErrorStreamCaptureImplicit: return "the default stream would wait for a capture";
    case cudaErrorCapturedEvent: return "the event was recorded in a capture";
    case cudaErrorGraphExecUpdateFailure: return "the graphs differ in more than arguments";
    default: return cudaGetErrorName(error);
  }
}
