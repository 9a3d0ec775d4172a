"""The messages of ML-Agents' protocol, API 1.5.0, built when this module is imported.

On the wire a message has no name, and an enumeration is a number, so the names here are our own;
the field numbers are the protocol's. The classes come from one text: no generated code is tied to
a version of protobuf.
"""

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE, METHOD = "communicator_objects.UnityToExternalProto", "Exchange"
API_VERSION = "1.5.0"
OK, FAILED = 200, 400  # status of a header
STEP, RESET, QUIT = 0, 1, 2  # commands
UNCOMPRESSED, PNG = 0, 1  # compression of an observation
NO_PROPERTY, TRANSLATIONAL, VARIABLE_SIZE = 1, 2, 4  # of a dimension
GOAL_SIGNAL = 1  # type of an observation
CONTINUOUS = 1  # space type of an action before API 1.3; 0 is discrete

_SCHEMA = """
message Header { int32 status = 1; string message = 2; }
message Action {
  repeated float of_old_api = 1; float value = 4; repeated float continuous = 6;
  repeated int32 discrete = 7;
}
message Floats { repeated float data = 1; }
message Observation {
  repeated int32 shape = 1; int32 compression = 2; bytes compressed = 3; Floats floats = 4;
  repeated int32 channel_mapping = 5; repeated int32 dimension_properties = 6; int32 type = 7;
  string name = 8;
}
message AgentInfo {
  float reward = 7; bool is_done = 8; bool is_interrupted = 9; int32 id = 10;
  repeated bool forbidden = 11; repeated Observation observations = 13; int32 group_id = 14;
  float group_reward = 15;
}
message AgentInfos { repeated AgentInfo value = 1; }
message Actions { repeated Action value = 1; }
message ActionSpec {
  int32 num_continuous = 1; int32 num_branches = 2; repeated int32 branch_sizes = 3;
}
message Behavior {
  repeated int32 sizes_of_old_api = 3; int32 type_of_old_api = 6; string name = 7;
  bool is_training = 8; ActionSpec action_spec = 9;
}
message Capabilities {
  bool base = 1; bool concatenated_png = 2; bool channel_mapping = 3; bool hybrid_actions = 4;
  bool training_analytics = 5; bool variable_length = 6; bool agent_groups = 7;
}
message Hello {
  string name = 1; string api_version = 2; string log_path = 3; repeated Behavior behaviors = 5;
  string package_version = 7; Capabilities capabilities = 8;
}
message Settings {
  int32 seed = 1; string api_version = 2; string package_version = 3;
  Capabilities capabilities = 4; int32 num_areas = 5;
}
message Output { map<string, AgentInfos> agents = 2; bytes channels = 3; }
message Input { map<string, Actions> actions = 1; int32 command = 4; bytes channels = 5; }
message Decision { AgentInfo info = 1; Action action = 2; }
message DemonstrationMeta {
  int32 api_version = 1; string name = 2; int32 num_decisions = 3; int32 num_episodes = 4;
  float mean_return = 5;
}
message FromUnity { Output output = 1; Hello hello = 2; }
message ToUnity { Input input = 1; Settings settings = 2; }
message Message { Header header = 1; FromUnity from_unity = 2; ToUnity to_unity = 3; }
"""
_PACKAGE = "unity"
_MESSAGE = re.compile(r"message (\w+) \{([^}]*)\}")
_FIELD = re.compile(r"(repeated )?(map<string, (\w+)>|\w+) (\w+) = (\d+);")
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL, "bytes": _Field.TYPE_BYTES, "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32, "string": _Field.TYPE_STRING,
}  # fmt: skip


def _classes() -> dict[str, Any]:
    """Returns the message classes of the schema, by name."""
    file = descriptor_pb2.FileDescriptorProto(name="unity", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGE.findall(_SCHEMA):
        message = file.message_type.add(name=name)
        for repeated, kind, of_map, field, number in _FIELD.findall(fields):
            if of_map:
                entry = message.nested_type.add(name=f"{field.title().replace('_', '')}Entry")
                entry.options.map_entry = True
                _add(entry, "key", 1, "string")
                _add(entry, "value", 2, of_map)
                _add(message, field, int(number), f"{name}.{entry.name}", is_repeated=True)
            else:
                _add(message, field, int(number), kind, is_repeated=bool(repeated))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}")
        )
        for message in file.message_type
    }


def _add(message: Any, name: str, number: int, kind: str, is_repeated: bool = False) -> None:
    label = _Field.LABEL_REPEATED if is_repeated else _Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


_MADE = _classes()
Action, Actions, AgentInfo = _MADE["Action"], _MADE["Actions"], _MADE["AgentInfo"]
ActionSpec = _MADE["ActionSpec"]
Behavior, Capabilities, Decision = _MADE["Behavior"], _MADE["Capabilities"], _MADE["Decision"]
DemonstrationMeta, Floats = _MADE["DemonstrationMeta"], _MADE["Floats"]
FromUnity, Header, Hello = _MADE["FromUnity"], _MADE["Header"], _MADE["Hello"]
Input, Message, Observation = _MADE["Input"], _MADE["Message"], _MADE["Observation"]
Output, Settings, ToUnity = _MADE["Output"], _MADE["Settings"], _MADE["ToUnity"]
