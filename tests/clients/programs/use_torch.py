# Takes memory with PyTorch's caching allocator, and says what it was told; in MiB.
import torch

MIB = 1 << 20


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def said(mib):
    try:
        return take(mib)
    except RuntimeError as error:
        return str(error)


def say(word, other):
    free, total = torch.cuda.mem_get_info()
    held = [torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]
    print(word, other if isinstance(other, str) else "served", free // MIB, total // MIB, *[number // MIB for number in held])


print(torch.version.cuda, torch.cuda.device_count(), torch.cuda.get_device_properties(0).total_memory // MIB)
say("start", "-")
first = take(2000)
second = said(2000)
say("second", second)
del first, second
say("dropped", "-")
first = take(2000)
say("from the cache", first)
del first
# No block of the cache is large enough, and the card or the quota has no room beside it: it is given back first.
first = said(14000 if torch.cuda.mem_get_info()[1] > 14000 * MIB else 2900)
say("instead of the cache", first)
del first
torch.cuda.empty_cache()
say("emptied", "-")
stats = torch.cuda.memory_stats()
print(stats["num_ooms"], stats["num_alloc_retries"])
numbers = torch.arange(1 << 20)
print(bool((numbers.cuda().cpu() == numbers).all()), numbers.pin_memory().is_pinned())
with torch.cuda.stream(torch.cuda.Stream()):
    print(bool((numbers.pin_memory().to("cuda", non_blocking=True).cpu() == numbers).all()))
