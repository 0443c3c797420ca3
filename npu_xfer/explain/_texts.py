"""What explain says beside the rules, in English and Chinese."""

from __future__ import annotations

__all__ = ["say"]

_TEXTS = {
    "host": ("host", "主机"),
    "device": ("device", "设备"),
    "SVM": ("SVM", "SVM"),
    "DVPP": ("DVPP", "DVPP"),
    "user": ("user", "用户"),
    "unregistered host": ("unregistered host", "未注册主机"),
    "managed": ("managed", "托管"),
    "host (NUMA)": ("host (NUMA)", "主机（NUMA）"),
    "unknown": ("unknown ({number})", "未知（{number}）"),
    "source": ("source", "源地址"),
    "destination": ("destination", "目的地址"),
    "old numbering": ("numbering 1 to 5, releases up to CANN 8.3", "编号 1～5，CANN 8.3 及更早版本"),
    "new numbering": ("numbering 0 to 4, CANN 8.5 and later", "编号 0～4，CANN 8.5 及更新版本"),
    "sides": (
        "source is {src} memory, destination is {dst} memory ({numbering})",
        "源地址是{src}内存，目的地址是{dst}内存（{numbering}）",
    ),
    "wrong side": (
        "the {side} should be {want} memory but is {have} memory",
        "{side}应为{want}内存，实际是{have}内存",
    ),
    "asked": ("asked: {asked} (kind={kind}); found: {said}", "请求：{asked}（kind={kind}）；实际：{said}"),
    "and": (" and ", "，"),
    "semicolon": ("; ", "；"),
    "names": ("the log names {names}", "日志中的错误码：{names}"),
    "follows": ("{what}: follows from the cause above", "{what}：由上述原因引起"),
    "decimal": (
        "{decimal} is {inner}, an inner code of the runtime in decimal",
        "{decimal} 即 {inner}，是以十进制打印的 runtime 内部错误码",
    ),
    "missing": ("{what} not in this log", "日志中没有{what}"),
    "direction": ("the direction is", "拷贝方向"),
    "size": ("the size is", "拷贝大小"),
    "both": ("direction and size are", "拷贝方向和大小"),
    "clocks": (
        "two clocks in these lines differ by {hours} h (time zone): they describe one event",
        "这些日志中的两个时钟相差 {hours} 小时（时区不同），描述的是同一事件",
    ),
    "memory": (
        "device {device}: module {module} holds {nbytes} bytes ({shown}){peak}; "
        "all other modules shown together hold {others}",
        "设备 {device}：模块 {module} 占用 {nbytes} 字节（{shown}）{peak}；日志中其他模块合计占用 {others}",
    ),
    "at peak": (", at its peak", "，已达峰值"),
    "below peak": (", its peak was {shown}", "，峰值为 {shown}"),
}  # fmt: skip


def say(lang: str, key: str, **values: object) -> str:
    """The text called `key` in a language ("en" or "zh"), with its holes filled."""
    return _TEXTS[key][lang == "zh"].format(**values)
