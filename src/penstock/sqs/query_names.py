"""The names of members in the Query protocol, where they differ from those in JSON.

Lists and maps lie flat and are called by one of their items: JSON's `"Attributes": {…}` is
`Attribute.1.Name=…&Attribute.1.Value=…` in a form and `<Attribute><Name>…` in XML.
"""

ITEM_NAMES = {
    "Actions": "ActionName",
    "AttributeNames": "AttributeName",
    "Attributes": "Attribute",
    "AWSAccountIds": "AWSAccountId",
    "BinaryListValues": "BinaryListValue",
    "Failed": "BatchResultErrorEntry",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageAttributes": "MessageAttribute",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "MessageSystemAttributes": "MessageSystemAttribute",
    "Messages": "Message",
    "QueueUrls": "QueueUrl",
    "Results": "ListMessageMoveTasksResultEntry",
    "StringListValues": "StringListValue",
    "TagKeys": "TagKey",
    "Tags": "Tag",
    "queueUrls": "QueueUrl",
    "tags": "Tag",
}
"""The names of items of a member, for all actions."""

JSON_NAMES = {"Messages": "messages", "QueueUrls": "queueUrls"}
"""Lists that an answer in JSON calls otherwise."""

TAG_MEMBERS = ("Tags", "tags")
"""Maps whose keys are called `Key`; those of all others are called `Name`."""


def item_name(action: str, member: str) -> str:
    """The name of an item of a list or map."""
    if member == "Entries":
        return f"{action}RequestEntry"
    if member == "Successful":
        return f"{action}ResultEntry"
    return ITEM_NAMES.get(member, member)


def key_name(member: str) -> str:
    """The name of a key of a map."""
    return "Key" if member in TAG_MEMBERS else "Name"
