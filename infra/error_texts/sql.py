# ruff: noqa: E501
"""TG1xx to TG4xx: statements and their options. What to do is empty where the hint of the example says it."""

from __future__ import annotations

SQL: dict[str, tuple[str, str]] = {
    "TG101": (
        "tidegate divides the text into words first. It can't do that when a quote or a comment is never closed, or when a sign has no meaning in SQL.",
        "",
    ),
    "TG102": (
        "The words are known, but their order is not the grammar of the statement. Often the mistake is a missing comma or bracket directly before the caret.",
        "",
    ),
    "TG103": (
        "The first word of a statement decides how the rest is read, and no statement begins with this word.",
        "",
    ),
    "TG104": (
        "A clause has several words, and one of them is not what the clause needs. Without the error, the clause would be ignored, and the object would work differently.",
        "",
    ),
    "TG105": (
        "The parser knows the SQL of several databases. tidegate refuses the parts that it does not carry out, so that no part of a query is ignored without notice.",
        "Remove the part at the caret. [The language](language.md) lists what a query can contain.",
    ),
    "TG106": (
        "The query is valid SQL, but tidegate can't keep its results up to date yet, or can't carry it out in this place.",
        "Write it as the hint shows, if there is one. [The language](language.md) lists what is supported.",
    ),
    "TG107": (
        "The files in `assets/` are read at every start. A statement that changes rows would be carried out each time, so the files contain definitions only, and ALTER statements for the columns of sources and tables.",
        "",
    ),
    "TG108": (
        "A statement has each of its clauses at most once. It is not known which of the two is meant.",
        "Write the contents of both clauses into one, or remove one of them.",
    ),
    "TG109": (
        "Front matter is a comment between two lines `-- ---`. It describes the CREATE statement in the next line, and is not read as front matter in another place.",
        "",
    ),
    "TG201": (
        "The name is misspelt, or no statement and no file of `assets/` has defined it.",
        "",
    ),
    "TG202": (
        "The relation in FROM has no such column. The name is misspelt, or a subquery does not select the column.",
        "",
    ),
    "TG203": (
        "Two relations of the query have a column of this name, and the query does not say which one is meant.",
        "",
    ),
    "TG204": (
        "Sources, tables, views and sinks share one set of names, and the case of letters does not matter. "
        "`ALTER … ADD COLUMN` in a file may not use the name of a column that an earlier `ALTER` drops or renames.",
        "",
    ),
    "TG205": (
        "tidegate stores columns of its own beside yours, for example the offset of a row, and adds relations whose names contain `$`. The names of tables are also names of files and folders.",
        "",
    ),
    "TG206": (
        "A relation has each column name once. The case of letters does not matter, so `id` and `ID` are the same name.",
        "Rename one of the two columns, or remove it.",
    ),
    "TG207": ("The word in the place of a type is the name of no type.", ""),
    "TG208": (
        "The type exists in other databases, but Spark and Iceberg have no type that stores the same values.",
        "Use the type that the hint names. [The language](language.md) lists all types.",
    ),
    "TG209": (
        "Neither Spark nor tidegate has a function of this name. Functions of your own are not supported.",
        "",
    ),
    "TG210": (
        "An aggregate, a window function or a generator works on many rows at once. WHERE, GROUP BY and similar clauses are computed for one row at a time.",
        "For an aggregate, use HAVING instead of WHERE. Otherwise compute the function in a subquery, and use its column in the outer query.",
    ),
    "TG211": (
        "One group has many rows, and they can have different values of this column. It is not known which value the group shows.",
        "",
    ),
    "TG212": ("Each row of an INSERT, and each query, needs one value for each column.", ""),
    "TG213": (
        "The rows of sources and views are computed or read by tidegate, and so are the values of generated columns. Only tables take rows from statements.",
        "",
    ),
    "TG214": (
        "The place needs a certain type, for example a condition, and the expression has another one. tidegate does not convert it silently.",
        "Write a comparison, such as `id > 0`, or CAST the expression to the type that the message names.",
    ),
    "TG215": ("The statement names one kind of object, but the object of that name is of another kind.", ""),
    "TG216": (
        "The results of a view are stored in a table, and each column of a table needs a name. An expression has no name of its own.",
        "",
    ),
    "TG217": (
        "A number in GROUP BY or ORDER BY means the column of SELECT in that place. SELECT has fewer columns.",
        "Write a number up to the one that the message names, or write the name of the column.",
    ),
    "TG218": (
        "Generated columns are computed from left to right, so each can use only the columns before it.",
        "",
    ),
    "TG219": (
        "The type of a generated column is derived from its expression. For this expression, tidegate can't derive it without Spark.",
        "",
    ),
    "TG220": (
        "After a failure, tidegate computes a batch again, and an audit computes all results again. A value that is random, or depends on the time of the run, would be another one each time.",
        "",
    ),
    "TG221": (
        "SQL can come from people who may not use the machine on which tidegate runs. Functions that call Java, or read files or the user's name, would give them access to it.",
        "Remove the function. Bring the value in as a column of the rows, or add it in a source.",
    ),
    "TG222": (
        "Views continue when a row has an unusable value: its result is NULL. A function that raises an error would stop the view at the same row in every run.",
        "",
    ),
    "TG301": (
        "A watermark is a point in event time, so its column must have a type whose values are in the order of time.",
        "",
    ),
    "TG302": (
        "A relation has one event time. With two watermarks, a row could be on time by the one and late by the other.",
        "",
    ),
    "TG303": (
        "The watermark is compared with the time of each row, so the strategy must give a value of the same type as the column.",
        "",
    ),
    "TG304": (
        "WITH TTL removes rows after their time. Only a table with a PRIMARY KEY has rows that can be removed in this way; a source and an append-only table keep theirs.",
        "",
    ),
    "TG305": (
        "A watermark decides about rows once. This works in a table whose rows never change (APPEND ONLY), or in one whose rows expire by the watermark (PRIMARY KEY and WITH TTL).",
        "",
    ),
    "TG306": (
        "A window closes when the watermark passes its end. Without a watermark, it would never close.",
        "",
    ),
    "TG307": (
        "Windows are ranges of event time. The watermark says nothing about other columns, so such windows could not close.",
        "",
    ),
    "TG308": (
        "A watermark stays with a column that is selected unchanged, or moved by a constant interval. Another expression can change the order of rows, so the watermark is lost there.",
        "",
    ),
    "TG309": (
        "A group is emitted once, when no more rows can come into it. Only a time in GROUP BY says when that is.",
        "",
    ),
    "TG310": (
        "TUMBLE, HOP, CUMULATE and SESSION take their arguments in a fixed order, and one is missing or of another kind.",
        "",
    ),
    "TG311": (
        "All windows of one function must have a known length that is greater than zero. Months have different numbers of days, so they are not mixed with days or hours.",
        "",
    ),
    "TG312": (
        "Each row must be in the same number of windows. This is so only when the size is a multiple of the slide.",
        "",
    ),
    "TG321": (
        "The statement changes a watermark that is declared. It does not add one, and does not move it to another column, because the stored rows were judged by the declared column.",
        "",
    ),
    "TG322": (
        "WATERMARK(…) in FROM creates a gate of its own over a relation. It needs the relation, the time column and the strategy.",
        "",
    ),
    "TG323": (
        "CURRENT_WATERMARK shows the watermark of a column. This column has none: none was declared for it, or it was lost on the way.",
        "",
    ),
    "TG331": (
        "A strategy is computed row by row, in the order of the partition. It can look at a fixed number of earlier rows, because only so many can be remembered.",
        "",
    ),
    "TG341": (
        "A row can join two sessions into one. Without EMIT ON WINDOW CLOSE, a session that is shown already would have to disappear.",
        "",
    ),
    "TG342": (
        "UNION ALL puts the rows of several queries below each other, so all queries need the same number of columns, with matching types.",
        "",
    ),
    "TG343": (
        "OVER and SESSION keep rows from one tick to the next. tidegate keeps such rows for the last step of a query only.",
        "",
    ),
    "TG344": (
        "A lookup table has no watermark, so it is never known that a row of it will find no partner. The row would have to be kept forever.",
        "",
    ),
    "TG345": (
        "A relation without a watermark is looked up: a row sees what is stored at the moment when it is processed. For rows that had a watermark, this is probably not intended, and its results depend on when the run takes place.",
        "",
    ),
    "TG351": (
        "A sink delivers each row once, and can't take it back. Rows that change later would be wrong at the receiver.",
        "",
    ),
    "TG361": (
        "The rows of an OVER clause are final when no row can come between them. That is known only in the order of a column with a watermark, or within a window.",
        "",
    ),
    "TG362": (
        "The result of a row is final when its frame is complete. A frame without an end, or without a limit of what it keeps, is never complete, or grows forever.",
        "",
    ),
    "TG363": (
        "Some functions need the number of all rows of the partition. While rows keep arriving, the number is not final.",
        "",
    ),
    "TG401": (
        "The option `connector` says where rows come from or go to. No connector has this name, or it can't be used for this kind of object.",
        "",
    ),
    "TG402": (
        "Each connector and format has its own options. An unknown one is refused, because a misspelt option would otherwise have no effect.",
        "",
    ),
    "TG403": ("The connector or format can't work without this option, and the option has no default.", ""),
    "TG404": (
        "The option exists, but its value has the wrong form, is out of its range, or does not fit the other options.",
        "Write a value as the message describes it. [The language](language.md) lists all options.",
    ),
    "TG405": (
        "The same option has two values, and it is not known which one is meant.",
        "Remove one of the two.",
    ),
    "TG406": (
        "FORMAT and ENCODE say how the bytes of a row are read or written. One of the two words is unknown, or they are not supported together.",
        "",
    ),
    "TG407": ("The option refers to columns of the same statement, and none of them has this name.", ""),
    "TG408": (
        "The setting exists, but not with this value. Some values would change the meaning of stored results, for example another time zone.",
        "",
    ),
    "TG409": (
        "SHOW knows the settings of tidegate, and this is the name of none. Spark's settings are in the environment's file.",
        "",
    ),
    "TG410": (
        (
            "Passwords, keys, tokens and logins inside addresses must not be written into a "
            "file: neither into SQL, nor into the YAML of environments, jobs and alerts."
        ),
        "Write `${NAME}`, and set the variable where tidegate runs.",
    ),
}
