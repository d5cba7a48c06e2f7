"""What the Query protocol calls the members of requests and answers, where JSON says otherwise.

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
"""What an item of a member is called, whatever the action."""

JSON_NAMES = {"Messages": "messages", "QueueUrls": "queueUrls"}
"""Lists that an answer in JSON calls otherwise."""

TAG_MEMBERS = ("Tags", "tags")
"""Maps whose keys are called `Key`; those of all others are called `Name`."""


def item_name(action: str, member: str) -> str:
    """What an item of a list or map is called."""
    if member == "Entries":
        return f"{action}RequestEntry"
    if member == "Successful":
        return f"{action}ResultEntry"
    return ITEM_NAMES.get(member, member)


def key_name(member: str) -> str:
    """What a key of a map is called."""
    return "Key" if member in TAG_MEMBERS else "Name"
