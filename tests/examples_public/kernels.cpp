/* kernels.cpp - the kernels of the public examples, as tasks that the simulator can execute.
 *
 * A kernel of the examples changes one word of device memory. Here its launch computes the word and fills it,
 * byte by byte, on the given stream, so that it happens in the stream's order and can be dropped, delayed and
 * failed like any task. A host function would not do: it excludes the report callbacks that examples use.
 *
 * Threads:   any; the examples launch from one at a time.
 * Locks:     mu, a leaf.
 * Owns:      `last`; a block of device memory for each ErrorOP, which the reset of the device frees.
 * Invariant: (mu held) last[word] is what the word will be once every launched kernel has run.
 */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "acl/acl.h"
#include "acl/aclsim.h"
#include "kernel_func/kernel_add.h"
#include "kernel_func/kernel_ops.h"

namespace
{

constexpr int32_t kVectorCoreException = 507035;        /* what the examples show for a kernel that traps */
constexpr auto kLong = std::chrono::milliseconds(1200); /* longer than the longest time-out, 1000 ms */

std::mutex mu;
std::map<const void *, uint32_t> last;

int32_t CurrentDevice()
{
    int32_t device = 0;

    (void)aclrtGetDevice(&device);
    return device;
}

/* The word that a kernel launched now would find: what is in memory, unless kernels are still to come. */
uint32_t Word(const uint32_t *word)
{
    uint32_t value = 0;
    std::lock_guard<std::mutex> lock(mu);
    auto known = last.find(word);

    if (known != last.end() && aclsim_pending_tasks(CurrentDevice()) > 0)
        return known->second;
    (void)aclsim_peek(word, &value, sizeof(value));
    return value;
}

void FillWord(void *stream, void *word, const void *value)
{
    for (size_t i = 0; i < sizeof(uint32_t); i++)
        (void)aclrtMemsetAsync(static_cast<char *>(word) + i, 1, static_cast<const unsigned char *>(value)[i],
                               1, stream);
}

void SetWord(void *stream, uint32_t *word, uint32_t value)
{
    {
        std::lock_guard<std::mutex> lock(mu);
        last[word] = value;
    }
    FillWord(stream, word, &value);
}

/* For an example that does not wait for its kernel: there the result is a race on hardware too. */
bool WaitsForKernels()
{
    return std::getenv("EXAMPLE_WAITS_FOR_KERNELS") != nullptr;
}

} // namespace

void EasyOP(uint32_t, void *stream, uint32_t *x)
{
    SetWord(stream, x, Word(x) + 1);
}

void ShortOP(uint32_t, void *stream, uint32_t *x)
{
    SetWord(stream, x, Word(x) * 2);
}

void LongOP(uint32_t, void *stream, uint32_t *x)
{
    (void)aclsim_hold_stream(stream);
    SetWord(stream, x, Word(x) + 1);
    std::thread([stream] {
        std::this_thread::sleep_for(kLong);
        (void)aclsim_release_stream(stream); /* refused when the stream is gone */
    }).detach();
}

/* A copy inside the device that fails. The held engine lets nothing start before the failure is armed; a
 * launch that is refused arms none. Nothing else in these examples queues such a copy. */
void ErrorOP(uint32_t, void *stream)
{
    constexpr size_t kHalf = 64;
    int32_t device = CurrentDevice();
    void *block = nullptr;

    if (aclrtMalloc(&block, 2 * kHalf, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
        return;
    (void)aclsim_hold_engine(device, ACLSIM_D2D);
    if (aclrtMemcpyAsync(static_cast<char *>(block) + kHalf, kHalf, block, kHalf, ACL_MEMCPY_DEVICE_TO_DEVICE,
                         stream) == ACL_SUCCESS)
        (void)aclsim_fail_copy(device, ACLSIM_D2D, 1, kVectorCoreException);
    (void)aclsim_release_engine(device, ACLSIM_D2D);
}

void WriteDo(uint32_t, void *stream, int *devPtr, int value)
{
    SetWord(stream, reinterpret_cast<uint32_t *>(devPtr), static_cast<uint32_t>(value));
    std::printf("Source data: %d\n", value);
    if (WaitsForKernels())
        (void)aclrtSynchronizeStream(stream);
}

/* Waits, since the examples destroy the stream without waiting, and the line must be certain. */
void ReadDo(uint32_t, void *stream, int *devPtr)
{
    int value = -1;

    (void)aclrtSynchronizeStream(stream);
    (void)aclsim_peek(devPtr, &value, sizeof(value));
    std::printf("Destination data: %d\n", value);
}

void PrintDo(uint32_t, void *)
{
    std::printf("Hello World\n");
}

void AddDo(uint32_t, void *stream, float *a, float *b, float *dst, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float left = 0, right = 0, sum;

        (void)aclsim_peek(a + i, &left, sizeof(left));
        (void)aclsim_peek(b + i, &right, sizeof(right));
        sum = left + right;
        FillWord(stream, dst + i, &sum);
    }
}
